// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" online=j multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// One loop carries the maximum so far, a base below it, and for each position in a chunk the sum of exp(x - base). The
// base moves up to the maximum where that exceeds it by more than 8. While all is -inf the sum is relative to 0; if all
// stays -inf it is NaN, as it is as written. After the loop the sum is made relative to the maximum.

vk.kernel @softmax(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %q = arith.divf %e, %sb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %q in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      %[[LOW:[0-9]+]] = arith.constant dense<0xff800000> : tensor<4xf32, #vk.axes<i>>
// CHECK:      %[[NONE:[0-9]+]] = arith.constant dense<0.000000e+00> : tensor<4x16xf32, #vk.axes<i, j>>
// CHECK:      %[[SLACK:[0-9]+]] = arith.constant dense<8.000000e+00>
// CHECK:      %max, %[[BASE:[0-9]+]], %[[SUMS:[0-9]+]] = scf.for %j0 = {{.*}} iter_args(%[[M:[0-9]+]] = %[[LOW]], %[[B:[0-9]+]] = %[[LOW]], %[[S:[0-9]+]] = %[[NONE]])
// CHECK-NEXT:   %row = vk.load
// CHECK-NEXT:   %[[C:[0-9]+]] = vk.max %row along j
// CHECK-NEXT:   %[[NEW:[0-9]+]] = arith.maximumf %[[M]], %[[C]]
// CHECK-NEXT:   %[[MOST:[0-9]+]] = arith.addf %[[B]], %[[SLACK]]
// CHECK-NEXT:   %[[HIGHER:[0-9]+]] = arith.cmpf ogt, %[[NEW]], %[[MOST]]
// CHECK-NEXT:   %[[MOVED:[0-9]+]] = arith.select %[[HIGHER]], %[[NEW]], %[[B]]
// CHECK-NEXT:   %[[IS:[0-9]+]] = arith.cmpf oeq, %[[MOVED]], %[[LOW]]
// CHECK-NEXT:   %[[LEVEL:[0-9]+]] = arith.select %[[IS]], %[[ZERO:[0-9]+]], %[[MOVED]]
// CHECK-NEXT:   %[[FALL:[0-9]+]] = arith.subf %[[B]], %[[LEVEL]]
// CHECK-NEXT:   %[[SCALE:[0-9]+]] = math.exp %[[FALL]]
// CHECK:        %[[E:[0-9]+]] = math.exp %{{.*}} : tensor<4x16xf32
// CHECK:        %[[SCALED:[0-9]+]] = arith.mulf %[[S]], %{{[0-9]+}} {vk.rescaled}
// CHECK-NEXT:   %[[NEXT:[0-9]+]] = arith.addf %[[SCALED]], %[[E]]
// CHECK-NEXT:   scf.yield %[[NEW]], %[[MOVED]], %[[NEXT]]
// CHECK:      %[[SUM:[0-9]+]] = vk.sum %[[SUMS]] along j
// CHECK:      %[[NAN:[0-9]+]] = math.exp
// CHECK-NEXT: %[[RELATIVE:[0-9]+]] = arith.mulf %[[SUM]]
// CHECK-NEXT: %sum = arith.select %{{[0-9]+}}, %[[NAN]], %[[RELATIVE]]
// CHECK:      scf.for
// CHECK-NOT:  scf.for
