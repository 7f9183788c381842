// RUN: vk-opt %s | filecheck %s
// RUN: vk-opt %s | vk-opt | filecheck %s
// RUN: vk-opt %s --print-op-generic | vk-opt | filecheck %s
// What tiles need beyond upstream arith and math; operands and results name their axes.

// CHECK-LABEL: vk.mapped @compute
vk.mapped @compute(%c: i64, %on: i1) {
  %M = vk.size M
  vk.launch "all" over (%p = %M) {
    %one = arith.constant 1.0 : f32
    // CHECK:       %i = vk.position i : tensor<4xi64, #vk.axes<i>>
    // CHECK-NEXT:  %below = vk.below i < %c : tensor<4xi1, #vk.axes<i>>
    // CHECK-NEXT:  %a = vk.broadcast %one : f32 -> tensor<4x8xf32, #vk.axes<i, j>>
    // CHECK-NEXT:  %b = vk.broadcast %a {note} : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<8x2x4xf32, #vk.axes<j, k, i>>
    %i = vk.position i : tensor<4xi64, #vk.axes<i>>
    %below = vk.below i < %c : tensor<4xi1, #vk.axes<i>>
    %a = vk.broadcast %one : f32 -> tensor<4x8xf32, #vk.axes<i, j>>
    %b = vk.broadcast %a {note} : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<8x2x4xf32, #vk.axes<j, k, i>>

    // CHECK-NEXT:  %sum = vk.sum %b along k : tensor<8x2x4xf32, #vk.axes<j, k, i>> -> tensor<8x4xf32, #vk.axes<j, i>>
    // CHECK-NEXT:  %max = vk.max %a along j : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<4xf32, #vk.axes<i>>
    // CHECK-NEXT:  %min = vk.min %a along i {note} : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<8xf32, #vk.axes<j>>
    // CHECK-NEXT:  %product = vk.product %max along i : tensor<4xf32, #vk.axes<i>> -> f32
    %sum = vk.sum %b along k : tensor<8x2x4xf32, #vk.axes<j, k, i>> -> tensor<8x4xf32, #vk.axes<j, i>>
    %max = vk.max %a along j : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<4xf32, #vk.axes<i>>
    %min = vk.min %a along i {note} : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<8xf32, #vk.axes<j>>
    %product = vk.product %max along i : tensor<4xf32, #vk.axes<i>> -> f32

    // CHECK-NEXT:  %s1 = vk.scan sum %a along j : tensor<4x8xf32, #vk.axes<i, j>>
    // CHECK-NEXT:  %s2 = vk.scan product %a along j : tensor<4x8xf32, #vk.axes<i, j>>
    // CHECK-NEXT:  %s3 = vk.scan max %a along i : tensor<4x8xf32, #vk.axes<i, j>>
    // CHECK-NEXT:  %s4 = vk.scan min %a along i : tensor<4x8xf32, #vk.axes<i, j>>
    %s1 = vk.scan sum %a along j : tensor<4x8xf32, #vk.axes<i, j>>
    %s2 = vk.scan product %a along j : tensor<4x8xf32, #vk.axes<i, j>>
    %s3 = vk.scan max %a along i : tensor<4x8xf32, #vk.axes<i, j>>
    %s4 = vk.scan min %a along i : tensor<4x8xf32, #vk.axes<i, j>>

    // What compares unsigned integers is an operation of its own, as in arith.
    // CHECK-NEXT:  %top = vk.maxui %i along i : tensor<4xi64, #vk.axes<i>> -> i64
    // CHECK-NEXT:  %bottom = vk.minui %i along i : tensor<4xi64, #vk.axes<i>> -> i64
    // CHECK-NEXT:  %s5 = vk.scan maxui %i along i : tensor<4xi64, #vk.axes<i>>
    // CHECK-NEXT:  %s6 = vk.scan minui %i along i : tensor<4xi64, #vk.axes<i>>
    %top = vk.maxui %i along i : tensor<4xi64, #vk.axes<i>> -> i64
    %bottom = vk.minui %i along i : tensor<4xi64, #vk.axes<i>> -> i64
    %s5 = vk.scan maxui %i along i : tensor<4xi64, #vk.axes<i>>
    %s6 = vk.scan minui %i along i : tensor<4xi64, #vk.axes<i>>

    // CHECK-NEXT:  %batched = vk.broadcast
    %batched = vk.broadcast %one : f32 -> tensor<2x4xf32, #vk.axes<k, i>>
    // An axis that both operands have, beside the one summed along, is a batch and stays.
    // CHECK-NEXT:  %d1 = vk.dot %a, %b, %batched along j precision ieee : tensor<4x8xf32, #vk.axes<i, j>>, tensor<8x2x4xf32, #vk.axes<j, k, i>>, tensor<2x4xf32, #vk.axes<k, i>>
    // CHECK-NEXT:  %d2 = vk.dot %max, %max, %one along i precision tf32 : tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>, f32
    %d1 = vk.dot %a, %b, %batched along j precision ieee : tensor<4x8xf32, #vk.axes<i, j>>, tensor<8x2x4xf32, #vk.axes<j, k, i>>, tensor<2x4xf32, #vk.axes<k, i>>
    %d2 = vk.dot %max, %max, %one along i precision tf32 : tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>, f32

    // CHECK-NEXT:  %scaled = vk.scale %max, %max : tensor<4xf32, #vk.axes<i>>
    %scaled = vk.scale %max, %max : tensor<4xf32, #vk.axes<i>>

    // CHECK-NEXT:  vk.print "values:\09" %d2, %i : f32, tensor<4xi64, #vk.axes<i>>
    // CHECK-NEXT:  vk.print "bits" %d2, %i : f32, tensor<4xi64, #vk.axes<i>> {unsigned = array<i64: 1>}
    // CHECK-NEXT:  vk.print "here"
    // CHECK-NEXT:  vk.assert %below, "i is too large" : tensor<4xi1, #vk.axes<i>>
    // CHECK-NEXT:  vk.assert %on, "off" : i1
    vk.print "values:\09" %d2, %i : f32, tensor<4xi64, #vk.axes<i>>
    vk.print "bits" %d2, %i : f32, tensor<4xi64, #vk.axes<i>> {unsigned = array<i64: 1>}
    vk.print "here"
    vk.assert %below, "i is too large" : tensor<4xi1, #vk.axes<i>>
    vk.assert %on, "off" : i1
  }
}
