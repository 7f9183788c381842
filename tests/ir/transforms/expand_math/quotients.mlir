// RUN: vk-opt '--expand-math{approximates=true}' %s | filecheck %s
// A quotient by what has fewer elements takes one reciprocal a divisor, and each element two products and a correction.
// What may be approximate is not corrected, and what is divided by as many elements stays a division.

vk.mapped @f(%x: !vk.tensor<[M, N], f32>, %total: !vk.tensor<[M], f32>, %out: !vk.tensor<[M, N], f32>) {
  %one = arith.constant 1 : i64
  vk.launch "f" over (%p = %one) {
    %n = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<4x16xf32, #vk.axes<i, j>>
    %d = vk.load %total[i] : !vk.tensor<[M], f32> -> tensor<4xf32, #vk.axes<i>>
    %db = vk.broadcast %d : tensor<4xf32, #vk.axes<i>> -> tensor<4x16xf32, #vk.axes<i, j>>
    %e = arith.divf %n, %db : tensor<4x16xf32, #vk.axes<i, j>>
    %f = arith.divf %n, %db fastmath<afn> : tensor<4x16xf32, #vk.axes<i, j>>
    %g = arith.divf %e, %f : tensor<4x16xf32, #vk.axes<i, j>>
    vk.store %g in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<4x16xf32, #vk.axes<i, j>>
  }
}

// CHECK:      %[[DIVISOR:[0-9]+]] = arith.mulf %d, %{{[0-9]+}} {vk.rounded} : tensor<4xf32
// CHECK:      arith.divf %{{[0-9]+}}, %[[DIVISOR]] : tensor<4xf32
// CHECK:      %[[QUOTIENT:[0-9]+]] = arith.mulf %{{[0-9]+}}, %{{[0-9]+}} {vk.rounded} : tensor<4x16xf32
// CHECK:      %[[REST:[0-9]+]] = math.fma
// CHECK-NEXT: %[[CORRECTED:[0-9]+]] = math.fma %[[REST]], %{{[0-9]+}}, %[[QUOTIENT]]
// CHECK-NEXT: %[[MAY:[0-9]+]] = arith.cmpf one, %[[CORRECTED]], %[[QUOTIENT]]
// CHECK-NEXT: %e = arith.select %[[MAY]], %[[CORRECTED]], %[[QUOTIENT]]
// CHECK:      arith.divf %{{[0-9]+}}, %{{[0-9]+}} : tensor<4xf32
// CHECK:      %f = arith.mulf
// CHECK:      %g = arith.divf %e, %f
